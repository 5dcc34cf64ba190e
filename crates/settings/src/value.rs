//! The kinds of values that a key can have.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use outboard_link::Address;
use outboard_link::shaped::Wire;
use outboard_link::shm::Users;
use outboard_wire::{JobId, Rank};

use crate::literal::{AUTO, NONE};
use crate::quantity::{parse_count, parse_duration, show_duration};
use crate::{ByteSize, Capacity, Literal, OrAuto, Percent, Secret, ValueError};

/// A kind of value: how it is read and shown.
pub(crate) trait Value: Sized {
    /// What it is called, in a word.
    const KIND: &'static str;
    /// How it is written, by example.
    const EXAMPLE: &'static str;
    /// Whether it has several parts, separated by commas in variables.
    const IS_LIST: bool = false;
    /// Whether it can be absent.
    const IS_OPTIONAL: bool = false;
    /// Whether it can be left to the machine.
    const IS_AUTOMATIC: bool = false;
    /// Whether it must not be shown.
    const IS_SECRET: bool = false;

    fn read(literal: &Literal) -> Result<Self, ValueError>;

    /// How it is written, unless that is a secret.
    fn show(&self) -> Literal;

    /// How it is written.
    fn reveal(&self) -> Literal {
        self.show()
    }

    /// Why a text is not such a value.
    fn unfit(text: &str, why: &'static str) -> ValueError {
        ValueError::Unfit { text: text.to_owned(), kind: Self::KIND, why, example: Self::EXAMPLE }
    }

    /// The text of a literal that has to be one.
    fn text(literal: &Literal) -> Result<&str, ValueError> {
        match literal {
            Literal::Text(text) => Ok(text.trim()),
            other => Err(Self::misshapen(other)),
        }
    }

    /// The text of a literal that may also be a number.
    fn digits(literal: &Literal) -> Result<&str, ValueError> {
        match literal {
            Literal::Number(text) => Ok(text),
            other => Self::text(other),
        }
    }

    fn misshapen(literal: &Literal) -> ValueError {
        ValueError::Shape { found: literal.shape(), kind: Self::KIND, example: Self::EXAMPLE }
    }
}

/// A value that is one of a few words.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    const KIND: &'static str;
    const EXAMPLE: &'static str;
    const ALL: &'static [(&'static str, Self)];
}

impl<T: Choice> Value for T {
    const KIND: &'static str = T::KIND;
    const EXAMPLE: &'static str = T::EXAMPLE;

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        let text = <Self as Value>::text(literal)?;
        let found = T::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, choice)| *choice).ok_or_else(|| Self::unfit(text, "there is no such choice"))
    }

    fn show(&self) -> Literal {
        let name = T::ALL.iter().find(|(_, choice)| choice == self).map_or("", |(name, _)| name);
        Literal::text(name)
    }
}

/// Absent values are written `none`.
impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;
    const EXAMPLE: &'static str = T::EXAMPLE;
    const IS_LIST: bool = T::IS_LIST;
    const IS_OPTIONAL: bool = true;
    const IS_SECRET: bool = T::IS_SECRET;

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match literal {
            Literal::Text(text) if text.trim() == NONE => Ok(None),
            literal => T::read(literal).map(Some),
        }
    }

    fn show(&self) -> Literal {
        self.as_ref().map_or_else(|| Literal::text(NONE), T::show)
    }

    fn reveal(&self) -> Literal {
        self.as_ref().map_or_else(|| Literal::text(NONE), T::reveal)
    }
}

/// Values that are left to the machine are written `auto`.
impl<T: Value> Value for OrAuto<T> {
    const KIND: &'static str = T::KIND;
    const EXAMPLE: &'static str = T::EXAMPLE;
    const IS_AUTOMATIC: bool = true;

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match literal {
            Literal::Text(text) if text.trim() == AUTO => Ok(Self::Auto),
            literal => T::read(literal).map(Self::Given),
        }
    }

    fn show(&self) -> Literal {
        self.given().map_or_else(|| Literal::text(AUTO), T::show)
    }
}

macro_rules! integer {
    ($($type:ty, $most:literal);+) => { $(
        impl Value for $type {
            const KIND: &'static str = "number";
            const EXAMPLE: &'static str = "a whole number such as 4";

            fn read(literal: &Literal) -> Result<Self, ValueError> {
                let digits = Self::digits(literal)?;
                let number = parse_count(digits).ok().and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| {
                    Self::unfit(digits, concat!("it is not whole, or not from 0 to ", $most))
                })
            }

            fn show(&self) -> Literal {
                // What is larger is no integer of TOML.
                match i64::try_from(*self) {
                    Ok(number) => Literal::Number(number.to_string()),
                    Err(_) => Literal::text(self),
                }
            }
        }
    )+ };
}

integer!(u8, "255"; u16, "65535"; u32, "4294967295"; u64, "2⁶⁴-1"; usize, "2⁶⁴-1");

impl Value for bool {
    const KIND: &'static str = "switch";
    const EXAMPLE: &'static str = "true or false (in variables and flags on or off as well)";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        if let Literal::Switch(on) = literal {
            return Ok(*on);
        }
        match Self::text(literal)? {
            "on" | "true" | "yes" | "1" => Ok(true),
            "off" | "false" | "no" | "0" => Ok(false),
            text => Err(Self::unfit(text, "it is neither on nor off")),
        }
    }

    fn show(&self) -> Literal {
        Literal::Switch(*self)
    }
}

impl Value for String {
    const KIND: &'static str = "text";
    const EXAMPLE: &'static str = "a text in quotes";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match Self::text(literal)? {
            "" => Err(Self::unfit("", "it is empty")),
            text => Ok(text.to_owned()),
        }
    }

    fn show(&self) -> Literal {
        Literal::text(self)
    }
}

impl Value for PathBuf {
    const KIND: &'static str = "path";
    const EXAMPLE: &'static str = "a path such as \"/var/lib/outboard\"";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match Self::text(literal)? {
            "" => Err(Self::unfit("", "it is empty")),
            text => Ok(text.into()),
        }
    }

    fn show(&self) -> Literal {
        Literal::text(self.display())
    }
}

impl Value for Secret {
    const KIND: &'static str = "secret";
    const EXAMPLE: &'static str = "a text of at least 16 characters";
    const IS_SECRET: bool = true;

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        Self::new(Self::text(literal)?)
    }

    fn show(&self) -> Literal {
        Literal::Secret
    }

    fn reveal(&self) -> Literal {
        Literal::text(self.expose())
    }
}

impl Value for Address {
    const KIND: &'static str = "address";
    const EXAMPLE: &'static str = "unix:@name, unix:/path or tcp:ip:port";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        Ok(Self::text(literal)?.parse()?)
    }

    fn show(&self) -> Literal {
        Literal::text(self)
    }
}

impl Value for Vec<Address> {
    const KIND: &'static str = "addresses";
    const EXAMPLE: &'static str = "a list such as [\"unix:@name\", \"tcp:10.0.0.1:7000\"]";
    const IS_LIST: bool = true;

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        let parts = literal.parts().ok_or_else(|| Self::misshapen(literal))?;
        Ok(parts.into_iter().map(str::parse).collect::<Result<_, _>>()?)
    }

    fn show(&self) -> Literal {
        Literal::List(self.iter().map(Address::to_string).collect())
    }
}

impl Value for Users {
    const KIND: &'static str = "users";
    const EXAMPLE: &'static str = "same, everyone or user ids such as [1000, 1001]";
    const IS_LIST: bool = true;

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        let parts = literal.parts().ok_or_else(|| Self::misshapen(literal))?;
        match parts[..] {
            ["same"] => return Ok(Self::Same),
            ["everyone"] => return Ok(Self::Everyone),
            _ => {}
        }
        let id = |part: &str| part.parse().map_err(|_| Self::unfit(part, "it is not the number of a user"));
        parts.into_iter().map(id).collect::<Result<_, _>>().map(Self::These)
    }

    fn show(&self) -> Literal {
        match self {
            Self::Same => Literal::text("same"),
            Self::Everyone => Literal::text("everyone"),
            Self::These(users) => Literal::List(users.iter().map(u32::to_string).collect()),
        }
    }
}

impl Value for JobId {
    const KIND: &'static str = "id";
    const EXAMPLE: &'static str = "up to 16 hexadecimal digits in quotes";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        let text = Self::text(literal)?;
        let id = u64::from_str_radix(text, 16).map(JobId);
        id.map_err(|_| Self::unfit(text, "it is not 1 to 16 hexadecimal digits"))
    }

    fn show(&self) -> Literal {
        Literal::Text(format!("{:016x}", self.0))
    }
}

impl Value for Wire {
    const KIND: &'static str = "wire";
    const EXAMPLE: &'static str = "a bandwidth and a latency such as \"10gbit,5us\"";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        Ok(Self::text(literal)?.parse()?)
    }

    fn show(&self) -> Literal {
        Literal::text(self)
    }
}

/// Implements a kind that is read from a text or a number by a function that says why not.
macro_rules! read_by {
    ($type:ty, $kind:literal, $example:literal, $parse:expr, $show:expr) => {
        impl Value for $type {
            const KIND: &'static str = $kind;
            const EXAMPLE: &'static str = $example;

            fn read(literal: &Literal) -> Result<Self, ValueError> {
                let text = Self::digits(literal)?;
                $parse(text).map_err(|why| Self::unfit(text, why))
            }

            fn show(&self) -> Literal {
                Literal::text($show(self))
            }
        }
    };
}

read_by!(ByteSize, "size", "a size such as 4GiB, 64KiB or 4096", ByteSize::parse, ByteSize::to_string);
read_by!(Percent, "share", "a share such as 30% or 0.3", Percent::parse, Percent::to_string);
read_by!(
    Capacity,
    "capacity",
    "a size such as 4GiB, or a share such as 50%",
    parse_capacity,
    Capacity::to_string
);
read_by!(Duration, "duration", "a duration such as 500ms or 2s", parse_duration, |it: &Duration| {
    show_duration(*it)
});
read_by!(SocketAddr, "socket", "an ip:port such as 127.0.0.1:9100", parse_socket, SocketAddr::to_string);
read_by!(Rank, "rank", "a whole number such as 0", parse_rank, |rank: &Rank| rank.0.to_string());

fn parse_capacity(text: &str) -> Result<Capacity, &'static str> {
    match text.ends_with('%') {
        true => Percent::parse(text).map(Capacity::Share),
        false => ByteSize::parse(text).map(Capacity::Bytes),
    }
}

fn parse_socket(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "it is not ip:port")
}

fn parse_rank(text: &str) -> Result<Rank, &'static str> {
    text.parse().map(Rank).map_err(|_| "it is not a rank's number")
}
