//! Who calls: a bearer token of an account, or in open mode everybody as `local`.

use std::sync::Arc;
use std::time::Duration;

use entity::api_token::{self, Principal, Role};
use jobs::boot_clock::{BootInstant, millis};
use moka::sync::Cache;
use poem::http::header;
use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaSecurityScheme, Registry};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};
use sha2::{Digest, Sha256};

use super::problem::{Code, Problem};
use crate::service::Service;

/// The account of an open server.
pub const LOCAL_ACCOUNT: &str = "local";
/// A token is believed for so long after the begin of a look, however long that took. A revoked one is refused within 5 s in every process.
const TOKEN_BELIEVED: Duration = Duration::from_secs(4);
const SCHEME: &str = "bearerToken";

/// The authenticated caller: the first thing that every operation takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller(pub Principal);

impl Caller {
    /// Whose keys and reservations these are.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.0.account
    }
}

impl<'a> ApiExtractor<'a> for Caller {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];

    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        registry.create_security_scheme(
            SCHEME,
            MetaSecurityScheme {
                ty: "http",
                description: Some(
                    "A token made by `api token create`. A server without tokens asks for none, takes any, and listens on loopback only.",
                ),
                name: None,
                key_in: None,
                scheme: Some("bearer"),
                bearer_format: None,
                flows: None,
                openid_connect_url: None,
            },
        );
    }

    fn security_schemes() -> Vec<&'static str> {
        vec![SCHEME]
    }

    async fn from_request(request: &'a Request, _: &mut RequestBody, _: ExtractParamOptions<()>) -> Result<Self> {
        let service = Service::of(request)?;
        Ok(service.authenticator.authenticate(&service, request).await?)
    }
}

/// Finds the caller of a request.
#[derive(Debug)]
pub struct Authenticator {
    /// Whether the server runs without tokens.
    open: bool,
    known: KnownTokens,
}

/// By SHA-256 of the token, with the end of belief in it: a token's text is kept nowhere.
#[derive(Debug)]
struct KnownTokens(Cache<[u8; 32], (BootInstant, Principal)>);

impl KnownTokens {
    fn new() -> Self {
        Self(Cache::builder().max_capacity(10_000).time_to_live(TOKEN_BELIEVED).build())
    }

    fn find(&self, digest: &[u8; 32], now: BootInstant) -> Option<Principal> {
        let (believed_until, principal) = self.0.get(digest)?;
        (now < believed_until).then_some(principal)
    }

    fn learn(&self, digest: [u8; 32], looked_at: BootInstant, principal: Principal) {
        self.0.insert(digest, (looked_at.plus_ms(millis(TOKEN_BELIEVED)), principal));
    }
}

impl Authenticator {
    /// `open`: there is no token in the database.
    #[must_use]
    pub fn new(open: bool) -> Self {
        Self { open, known: KnownTokens::new() }
    }

    async fn authenticate(&self, service: &Arc<Service>, request: &Request) -> Result<Caller, Problem> {
        if self.open {
            return Ok(Caller(Principal { account: LOCAL_ACCOUNT.into(), role: Role::Operator }));
        }
        let token = bearer_token(request).ok_or_else(unauthenticated)?;
        let digest: [u8; 32] = Sha256::digest(&token).into();
        if let Some(principal) = self.known.find(&digest, BootInstant::now()) {
            return Ok(Caller(principal));
        }
        let (db, looked_at) = (service.db.clone(), BootInstant::now());
        let principal = service.storage(async move { api_token::authenticate(&db, &token).await }).await?.ok_or_else(unauthenticated)?;
        self.known.learn(digest, looked_at, principal.clone());
        Ok(Caller(principal))
    }
}

fn bearer_token(request: &Request) -> Option<String> {
    let mut lines = request.headers().get_all(header::AUTHORIZATION).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (scheme, token) = line.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && (1..=4096).contains(&token.len())).then(|| token.to_owned())
}

fn unauthenticated() -> Problem {
    Problem::new(Code::Unauthenticated, "This request needs a valid token in the header Authorization.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_believed_from_the_begin_of_its_look_however_long_that_took() {
        let known = KnownTokens::new();
        let (looked_at, principal) = (BootInstant::now(), Principal { account: "a".into(), role: Role::Client });
        known.learn([1; 32], looked_at, principal.clone());
        assert_eq!(known.find(&[1; 32], looked_at.plus_ms(3999)), Some(principal));
        assert_eq!(known.find(&[1; 32], looked_at.plus_ms(4000)), None);
        assert_eq!(known.find(&[2; 32], looked_at), None);
    }
}
