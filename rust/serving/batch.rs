//! A replica that answers in batches: all requests of one are answered at once.

/// The batch under way.
#[derive(Clone, Debug)]
pub(super) struct BatchReplica {
    /// Of its GPU type, by that of the first type.
    pub(super) speed: f64,
    pub(super) taken: Vec<u32>,
    pub(super) began: f64,
    /// When it ends; infinity without one.
    pub(super) until: f64,
}

impl BatchReplica {
    pub(super) fn new(speed: f64) -> Self {
        Self { speed, taken: Vec::new(), began: 0.0, until: f64::INFINITY }
    }
}
