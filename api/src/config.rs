//! The settings of `api`: each a flag and an environment variable from one definition, checked at the start.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use entity::api_token::Role;
use jobs::config::{BookingArgs, DatabaseArgs, KeyArgs, ScheduleArgs, duration, duration_or_zero};

use crate::http::key_header::KeySyntax;

/// A reservation API that can be retried safely: every POST carries an Idempotency-Key, and books once.
#[derive(Debug, Parser)]
#[command(name = "api", version)]
pub struct Arguments {
    /// Without one: serve
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Everything that can be set
    #[command(flatten)]
    pub settings: Settings,
}

/// What else `api` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the OpenAPI document as YAML
    Openapi,
    /// Run the sandbox booking system alone, on SANDBOX_LISTEN
    Sandbox,
    /// Bearer tokens: create, list, revoke
    #[command(subcommand)]
    Token(TokenCommand),
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a new token and print it alone on standard output; it is shown only this once
    Create {
        /// Account it belongs to; several tokens may belong to one
        #[arg(long, value_parser = account)]
        account: String,
        /// client or operator
        #[arg(long, default_value = "client", value_parser = role)]
        role: Role,
    },
    /// List tokens by fingerprint; never their text
    List,
    /// Revoke a token; running processes refuse it within 5 s
    Revoke {
        /// First 8 or more hexadecimal digits of its SHA-256, as `list` shows them
        #[arg(value_parser = fingerprint)]
        fingerprint: String,
    },
}

/// All settings.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Database
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Booking system
    #[command(flatten)]
    pub booking: BookingArgs,
    /// Keys
    #[command(flatten)]
    pub keys: KeyArgs,
    /// Jobs
    #[command(flatten)]
    pub schedule: ScheduleArgs,
    /// HTTP
    #[command(flatten)]
    pub http: HttpArgs,
}

/// The API itself.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "API")]
pub struct HttpArgs {
    /// Where the API listens; without tokens only a loopback address
    #[arg(long, env, value_name = "ADDRESS", default_value = "127.0.0.1:8000", value_parser = socket_address, global = true)]
    pub listen: SocketAddr,
    /// Where the sandbox listens; beside `api`, if not set and taken, on a free port
    #[arg(long, env, value_name = "ADDRESS", value_parser = socket_address, global = true)]
    pub sandbox_listen: Option<SocketAddr>,
    /// Whether the jobs run inside `api`
    #[arg(long, env, value_name = "WHERE", default_value = "embedded", global = true)]
    pub scheduler: SchedulerMode,
    /// How a duplicate of a running request is answered: 409 at once, or the answer after waiting
    #[arg(long, env, value_name = "HOW", default_value = "conflict", global = true)]
    pub on_duplicate: OnDuplicate,
    /// `Prefer: wait=N` and ON_DUPLICATE=wait wait no longer than this
    #[arg(long, env, value_name = "DURATION", default_value = "30s", value_parser = duration_or_zero, global = true)]
    pub wait_limit: Duration,
    /// Whether an Idempotency-Key may also be bare, or must be a quoted string (RFC 9651)
    #[arg(long, env, value_name = "SYNTAX", default_value = "lenient", global = true)]
    pub key_syntax: KeySyntaxArg,
    /// Tokens to add at the start where missing: account:token[,account:token]
    #[arg(long, env, value_name = "TOKENS", hide_env_values = true, value_parser = api_tokens, global = true)]
    pub api_tokens: Option<TokenList>,
    /// Largest request body, such as 64KiB or 1MiB
    #[arg(long, env, value_name = "SIZE", default_value = "64KiB", value_parser = size_bytes, global = true)]
    pub body_limit: usize,
    /// A request body arrives within this
    #[arg(long, env, value_name = "DURATION", default_value = "10s", value_parser = duration, global = true)]
    pub body_timeout: Duration,
    /// New keys of one account at most, such as 100/s or 600/m; replays are never counted
    #[arg(long, env, value_name = "RATE", default_value = "off", value_parser = rate_limit, global = true)]
    pub rate_limit: RateLimit,
    /// Origins whose pages may call, such as https://booking.example[,https://other.example]
    #[arg(long, env, value_name = "ORIGINS", value_parser = cors_origins, global = true)]
    pub cors_origins: Option<OriginList>,
}

/// Whether the jobs run inside `api`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchedulerMode {
    /// In this process.
    Embedded,
    /// Not here: `jobs` runs them.
    Off,
}

/// How a duplicate of a running request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnDuplicate {
    /// 409 at once.
    Conflict,
    /// The answer, after waiting for at most WAIT_LIMIT.
    Wait,
}

/// Which spellings of a key are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeySyntaxArg {
    /// Quoted or bare.
    Lenient,
    /// Quoted only.
    Strict,
}

impl From<KeySyntaxArg> for KeySyntax {
    fn from(argument: KeySyntaxArg) -> Self {
        match argument {
            KeySyntaxArg::Lenient => Self::Lenient,
            KeySyntaxArg::Strict => Self::Strict,
        }
    }
}

/// `API_TOKENS`.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenList(pub Vec<(String, String)>);

impl std::fmt::Debug for TokenList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenList({} tokens)", self.0.len())
    }
}

/// `CORS_ORIGINS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginList(pub Vec<String>);

/// `RATE_LIMIT`: so many new keys in a period; `None` is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit(pub Option<(NonZeroU32, Duration)>);

fn account(text: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '@');
    if (1..=128).contains(&text.len()) && text.chars().all(known) {
        Ok(text.to_owned())
    } else {
        Err("an account is 1 to 128 of A-Z a-z 0-9 _ . - @".into())
    }
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an IP address and a port, such as 127.0.0.1:8000 or [::1]:8000".into())
}

fn role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "client or operator".into())
}

fn fingerprint(text: &str) -> Result<String, String> {
    let hex = text.len() >= 8 && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hex { Ok(text.to_ascii_lowercase()) } else { Err("8 to 64 hexadecimal digits".into()) }
}

/// Never repeats a token in its message.
fn api_tokens(text: &str) -> Result<TokenList, String> {
    let entry = |entry: &str| {
        let (name, token) = entry.split_once(':').ok_or("account:token[,account:token]")?;
        let token_ok = (1..=255).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
        if !token_ok {
            return Err("a token is 1 to 255 visible ASCII characters".to_owned());
        }
        Ok((account(name.trim())?, token.to_owned()))
    };
    // A comma at the end is no mistake, a list of nothing is.
    let entries = text.trim_end_matches(',').split(',').map(str::trim);
    let entries: Vec<(String, String)> = entries.map(entry).collect::<Result<_, _>>()?;
    let elsewhere = |(account, token): &(String, String)| entries.iter().any(|(a, t)| t == token && a != account);
    if entries.iter().any(elsewhere) {
        return Err("one token is given to two accounts".into());
    }
    Ok(TokenList(entries))
}

fn size_bytes(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let factor = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err("a size such as 65536, 64KiB or 1MiB".into()),
    };
    let bytes = text[..digits].parse::<usize>().ok().and_then(|n| n.checked_mul(factor)).filter(|n| (1..=64 << 20).contains(n));
    bytes.ok_or_else(|| "a size from 1 byte to 64MiB".into())
}

fn rate_limit(text: &str) -> Result<RateLimit, String> {
    if text == "off" {
        return Ok(RateLimit(None));
    }
    let (count, unit) = text.split_once('/').unwrap_or((text, "s"));
    let period = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("off, or a rate such as 100/s, 600/m or 5000/h".into()),
    };
    let count = count.parse::<NonZeroU32>().map_err(|_| "off, or a rate such as 100/s, 600/m or 5000/h")?;
    Ok(RateLimit(Some((count, Duration::from_secs(period)))))
}

fn cors_origins(text: &str) -> Result<OriginList, String> {
    let origins: Vec<&str> = text.split(',').map(str::trim).collect();
    // As a browser writes it: another spelling would never be met.
    let is_origin = |origin: &&str| {
        reqwest::Url::parse(origin).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == **origin && !origin.contains('*')
        })
    };
    if origins.iter().all(is_origin) {
        Ok(OriginList(origins.into_iter().map(str::to_owned).collect()))
    } else {
        Err("origins as browsers send them, such as https://booking.example: small letters, no path, no wildcard, no usual port".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rates_and_origins() {
        assert_eq!(size_bytes("64KiB"), Ok(65536));
        assert_eq!(size_bytes("1"), Ok(1));
        for bad in ["", "0", "-1", "1kb", "KiB", "65MiB", "99999999999999999999"] {
            assert!(size_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(rate_limit("off"), Ok(RateLimit(None)));
        assert_eq!(rate_limit("600/m"), Ok(RateLimit(NonZeroU32::new(600).map(|n| (n, Duration::from_secs(60))))));
        for bad in ["", "0/s", "5/d", "x"] {
            assert!(rate_limit(bad).is_err(), "{bad}");
        }
        assert!(cors_origins("https://a.example, http://localhost:3000").is_ok());
        assert!(cors_origins("http://[::1]:3000,https://xn--n8jwbm.example:8443").is_ok());
        for bad in [
            "*",
            "https://*.a.example",
            "https://user:word@a.example",
            "a.example",
            "https://a.example/",
            "ftp://a",
            "null",
            "https://a.example?x",
            "https://a.example#x",
        ] {
            assert!(cors_origins(bad).is_err(), "{bad}");
        }
        for never_met in ["https://a.example:443", "http://a.example:80", "https://A.example", "HTTPS://a.example", "https://予約.example"]
        {
            assert!(cors_origins(never_met).is_err(), "{never_met}");
        }
        assert!(api_tokens("acme:tok-acme-1,other:tok-other-1").is_ok());
        for bad in ["a:t,b:t", "", ",", "acme:t,,other:u", "acme", "acme:", ":token", "a b:token", "acme:to ken"] {
            assert!(api_tokens(bad).is_err(), "{bad}");
        }
    }
}
