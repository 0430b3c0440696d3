//! Describes one option: the kind of its values, their range, which runs use it, and its help.
//!
//! An [`Entry`] is a row of a table in `table`. The checks, and all generated code and pages, are derived from it.
//!
//! ```
//! use ringbco::options::{Entry, Value};
//! const TURN: Entry = Entry::number("turn", 0.0, 60.0, "a time >= 0 and <= 60 s").unit("s").help("Length of a turn.");
//! assert!(TURN.check(&Value::Number(30.0)).is_ok());
//! let told = TURN.check(&Value::Number(90.0)).unwrap_err().to_string();
//! assert_eq!(told, "option turn: 90: expected a time >= 0 and <= 60 s");
//! ```

use super::{ClockKind, Discipline, Order, Placement, Search, Ties, Value};
use crate::error::{Error, Result};
use crate::planner::Planner;

/// The values that an option may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// Integers from `least` to `most`.
    Integer {
        /// The least.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// Finite numbers.
    Number(Range),
    /// Several numbers, in ascending order.
    Numbers(Range),
    /// One of these names.
    Name(&'static [&'static str]),
    /// One of these texts, or another one that `Ties::parse` accepts.
    Ties(&'static [&'static str]),
    /// A text that `Search::parse` accepts.
    Search,
    /// The name of a policy, which the registry of policies resolves.
    Policy,
    /// A file, which the caller reads: the engine never sees its name.
    File,
    /// One file like `File`, or several.
    Files,
    /// An instant, or a share of a span of time, which the engine never sees.
    Moment,
}

/// The finite numbers from `least` to `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// Whether `least` itself is out of the range.
    pub above: bool,
    /// The largest; infinity for none.
    pub most: f64,
    /// Whether infinity itself is in the range.
    pub endless: bool,
}

impl Range {
    /// Returns whether the number is in the range.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (value.is_finite() || (self.endless && value == f64::INFINITY))
            && value <= self.most
            && if self.above { value > self.least } else { value >= self.least }
    }
}

/// The runs that use an option: those with one of these as that part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// Every run.
    All,
    /// Queue orders.
    Order(&'static [Order]),
    /// Placements.
    Placement(&'static [Placement]),
    /// Queue disciplines.
    Queue(&'static [Discipline]),
    /// The policies that list it among their options.
    Policies,
    /// Clocks.
    Clock(&'static [ClockKind]),
    /// Planners.
    Planner(&'static [Planner]),
    /// Runs with at least one of these other options, by their names as typed.
    Given(&'static [&'static str]),
    /// Runs of any of several kinds.
    Any(&'static [Self]),
}

/// One option. Its default is that of the struct of which it is a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Its name as typed on the command line, such as `preempt-cost`. Files and Python have `_` for `-`.
    pub name: &'static str,
    /// The values that it may have.
    pub kind: Kind,
    /// What was expected instead of an invalid value; empty where the kind says it.
    pub expected: &'static str,
    /// What applies if no value is given; `None` if one always is.
    pub absent: Option<&'static str>,
    /// The word that stands for no value, if there is one.
    pub word: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// Which runs use it.
    pub users: Users,
    /// Whether all other runs ignore it.
    pub exclusive: bool,
    /// Whether a run cannot do what it demands unless the policy uses it: then the others refuse it.
    pub demand: bool,
    /// How a value is written, where the kind does not say it.
    pub form: &'static str,
    /// The group of options in which the command line lists it; empty where only a policy sets it.
    pub panel: &'static str,
    /// One sentence of help. `{names}` stands for the names it may have.
    pub help: &'static str,
}

impl Entry {
    const fn new(name: &'static str, kind: Kind, expected: &'static str) -> Self {
        Self {
            name,
            kind,
            expected,
            absent: None,
            word: "",
            unit: "",
            users: Users::All,
            exclusive: true,
            demand: false,
            form: "",
            panel: "",
            help: "",
        }
    }

    /// Creates an option that is yes or no.
    #[must_use]
    pub const fn flag(name: &'static str) -> Self {
        Self::new(name, Kind::Flag, "True or False")
    }

    /// Creates an option that is an integer from `least` to `most`.
    #[must_use]
    pub const fn integer(name: &'static str, least: u64, most: u64) -> Self {
        Self::new(name, Kind::Integer { least, most }, "")
    }

    /// Creates an option that is a number from `least` to `most`.
    #[must_use]
    pub const fn number(name: &'static str, least: f64, most: f64, expected: &'static str) -> Self {
        Self::new(name, Kind::Number(Range { least, above: false, most, endless: false }), expected)
    }

    /// Creates an option that is a number >= 0, or infinity.
    #[must_use]
    pub const fn endless(name: &'static str, expected: &'static str) -> Self {
        let range = Range { least: 0.0, above: false, most: f64::INFINITY, endless: true };
        Self::new(name, Kind::Number(range), expected)
    }

    /// Creates an option that is a number > 0, up to `most`.
    #[must_use]
    pub const fn positive(name: &'static str, most: f64, expected: &'static str) -> Self {
        Self::new(name, Kind::Number(Range { least: 0.0, above: true, most, endless: false }), expected)
    }

    /// Creates an option of numbers > 0 in ascending order.
    #[must_use]
    pub const fn ascending(name: &'static str, expected: &'static str) -> Self {
        Self::new(name, Kind::Numbers(Range { least: 0.0, above: true, most: f64::INFINITY, endless: false }), expected)
    }

    /// Creates an option that is one of the names.
    #[must_use]
    pub const fn name(name: &'static str, names: &'static [&'static str]) -> Self {
        Self::new(name, Kind::Name(names), "")
    }

    /// Creates an option that `Ties::parse` accepts.
    #[must_use]
    pub const fn ties(name: &'static str, texts: &'static [&'static str]) -> Self {
        Self::new(name, Kind::Ties(texts), Ties::EXPECTED)
    }

    /// Creates an option that `Search::parse` accepts.
    #[must_use]
    pub const fn search(name: &'static str) -> Self {
        Self::new(name, Kind::Search, Search::EXPECTED)
    }

    /// Creates an option that is the name of a policy.
    #[must_use]
    pub const fn policy(name: &'static str) -> Self {
        Self::new(name, Kind::Policy, "a policy by name")
    }

    /// Creates an option that is a file, which the caller reads, or `none`.
    #[must_use]
    pub const fn file(name: &'static str, expected: &'static str) -> Self {
        Self::new(name, Kind::File, expected).or("none").word("none")
    }

    /// Creates an option that is one file or several, which the caller reads, or `none`.
    #[must_use]
    pub const fn files(name: &'static str, expected: &'static str) -> Self {
        Self::new(name, Kind::Files, expected).or("none").word("none")
    }

    /// Creates an option that is an instant, which the caller resolves.
    #[must_use]
    pub const fn moment(name: &'static str) -> Self {
        Self::new(
            name,
            Kind::Moment,
            "a share from 0 to 1, or a time >= 0 such as 2.5d, 6h, 30min, 90s, or seconds > 1",
        )
    }

    /// Allows no value to be given, which means `absent`.
    #[must_use]
    pub const fn or(self, absent: &'static str) -> Self {
        Self { absent: Some(absent), ..self }
    }

    /// Allows no value to be given, for which `word` stands.
    #[must_use]
    pub const fn word(self, word: &'static str) -> Self {
        let absent = if self.absent.is_none() { Some("") } else { self.absent };
        Self { word, absent, ..self }
    }

    /// Sets the unit.
    #[must_use]
    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Sets which runs use it; all others ignore it.
    #[must_use]
    pub const fn of(self, users: Users) -> Self {
        Self { users, ..self }
    }

    /// Sets which runs use it most; the others may too.
    #[must_use]
    pub const fn above_all_of(self, users: Users) -> Self {
        Self { users, exclusive: false, ..self }
    }

    /// Makes other runs refuse it rather than ignore it.
    #[must_use]
    pub const fn demand(self) -> Self {
        Self { demand: true, ..self }
    }

    /// Sets how a value is written.
    #[must_use]
    pub const fn form(self, form: &'static str) -> Self {
        Self { form, ..self }
    }

    /// Sets where the command line lists it.
    #[must_use]
    pub const fn panel(self, panel: &'static str) -> Self {
        Self { panel, ..self }
    }

    /// Sets its help.
    #[must_use]
    pub const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Returns whether this is the option of that name, written with `-` or with `_`.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
        self.name.len() == name.len() && self.name.bytes().zip(name.bytes()).all(|(a, b)| a == plain(b))
    }

    /// Returns what a value must be.
    #[must_use]
    pub fn wanted(&self) -> String {
        match self.kind {
            Kind::Integer { least, most } => format!("an integer from {least} to {most}"),
            Kind::Name(names) => format!("one of {}", names.join(", ")),
            _ => self.expected.to_owned(),
        }
    }

    /// Returns the error that refuses the value.
    #[must_use]
    pub fn refusal(&self, value: &Value) -> Error {
        Error::Option { name: self.name, value: value.shown(), expected: self.wanted() }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// `Option` if it is of another kind or out of range.
    pub fn check(&self, value: &Value) -> Result<()> {
        let good = match (self.kind, value) {
            (_, Value::Absent) => self.absent.is_some(),
            (Kind::Flag, Value::Flag(_)) => true,
            (Kind::Integer { least, most }, Value::Integer(count)) => (least..=most).contains(count),
            (Kind::Number(range), Value::Number(number)) => range.holds(*number),
            (Kind::Numbers(range), Value::Numbers(numbers)) => {
                numbers.iter().all(|&number| range.holds(number)) && numbers.windows(2).all(|pair| pair[0] < pair[1])
            }
            (Kind::Name(names), Value::Text(text)) => names.contains(&text.as_str()),
            (Kind::Ties(_), Value::Text(text)) => Ties::parse(text).is_ok(),
            (Kind::Search, Value::Text(text)) => Search::parse(text).is_ok(),
            (Kind::Policy, Value::Policy(_)) => true,
            _ => false,
        };
        if good { Ok(()) } else { Err(self.refusal(value)) }
    }
}
