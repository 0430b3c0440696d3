//! Values of options, the fields that hold them, and the macro that declares a struct of such fields.

use super::{Entry, Facts, Ties};
use crate::error::Result;

/// A value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value is given.
    Absent,
    /// Yes or no.
    Flag(bool),
    /// A count.
    Integer(u64),
    /// A number.
    Number(f64),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// A name, or a text of a certain form.
    Text(String),
    /// A policy that preempts.
    Policy(&'static Facts),
}

impl Value {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Absent => "none".to_owned(),
            Self::Flag(flag) => flag.to_string(),
            Self::Integer(count) => count.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Numbers(numbers) => numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(","),
            Self::Text(text) => text.clone(),
            Self::Policy(facts) => facts.name.to_owned(),
        }
    }
}

/// A field of a struct of options.
pub(crate) trait Setting: Sized {
    /// Returns its value.
    fn value(&self) -> Value;

    /// Returns the field with that value; `None` if it cannot have it.
    fn of(value: &Value) -> Option<Self>;
}

impl Setting for bool {
    fn value(&self) -> Value {
        Value::Flag(*self)
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Flag(flag) = value { Some(*flag) } else { None }
    }
}

impl Setting for u32 {
    fn value(&self) -> Value {
        Value::Integer(u64::from(*self))
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Integer(count) = value { (*count).try_into().ok() } else { None }
    }
}

impl Setting for u64 {
    fn value(&self) -> Value {
        Value::Integer(*self)
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Integer(count) = value { Some(*count) } else { None }
    }
}

impl Setting for f64 {
    fn value(&self) -> Value {
        Value::Number(*self)
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Some(*number) } else { None }
    }
}

impl Setting for Vec<f64> {
    fn value(&self) -> Value {
        Value::Numbers(self.clone())
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Numbers(numbers) = value { Some(numbers.clone()) } else { None }
    }
}

impl Setting for Ties {
    fn value(&self) -> Value {
        Value::Text(match self {
            Self::Rows => "rows".to_owned(),
            Self::Reverse => "reverse".to_owned(),
            Self::Shuffle(seed) => format!("shuffle:{seed}"),
        })
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Self::parse(text).ok() } else { None }
    }
}

impl<T: Setting> Setting for Option<T> {
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Absent, T::value)
    }

    fn of(value: &Value) -> Option<Self> {
        if *value == Value::Absent { Some(None) } else { T::of(value).map(Some) }
    }
}

/// A struct whose fields are the options of a table.
pub trait Table: Default {
    /// The options, in the order of the fields.
    const TABLE: &'static [Entry];

    /// Returns the value of the option in row `row` of the table; `Absent` past its end.
    fn get(&self, row: usize) -> Value;

    /// Sets the option in row `row` of the table to that value.
    ///
    /// # Errors
    /// `Option` if the value is of another kind or out of range.
    fn set(&mut self, row: usize, value: &Value) -> Result<()>;

    /// Returns the row of the option of that name, written with `-` or with `_`.
    fn row(name: &str) -> Option<usize> {
        Self::TABLE.iter().position(|entry| entry.is(name))
    }

    /// Checks every option by itself.
    ///
    /// # Errors
    /// `Option`, naming the first one out of range.
    fn check_each(&self) -> Result<()> {
        Self::TABLE.iter().enumerate().try_for_each(|(row, entry)| entry.check(&self.get(row)))
    }
}

/// Declares a struct of options: its fields, their types and defaults, and the table row of each.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident: $type:ty = $default:expr => $entry:expr;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$about])* pub $field: $type),+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }

        impl $crate::options::Table for $name {
            const TABLE: &'static [$crate::options::Entry] = &[$($entry),+];

            fn get(&self, row: usize) -> $crate::options::Value {
                let values = [$(|options: &Self| $crate::options::Setting::value(&options.$field)),+];
                values.get(row).map_or($crate::options::Value::Absent, |value| value(self))
            }

            fn set(&mut self, row: usize, value: &$crate::options::Value) -> $crate::error::Result<()> {
                let Some(entry) = Self::TABLE.get(row) else { return Ok(()) };
                let setters: &[fn(&mut Self, &$crate::options::Value) -> Option<()>] = &[$(|options, value| {
                    options.$field = $crate::options::Setting::of(value)?;
                    Some(())
                }),+];
                entry.check(value)?;
                setters[row](self, value).ok_or_else(|| entry.refusal(value))
            }
        }
    };
}

pub(super) use options;
