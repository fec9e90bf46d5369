//! What a key is valid for, and the digest under which it is stored: the key itself is never written down.

use sha2::{Digest, Sha256};

/// A keyed operation, by its operationId. The scope of a key is (account, method, route): each operation is one method and route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `POST /reservations`.
    Create,
    /// `PATCH /reservations/{id}`.
    Change,
    /// `DELETE /reservations/{id}`, under an internal key: the reservation's id.
    Cancel,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 3] = [Self::Create, Self::Change, Self::Cancel];

    /// The operationId, as stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "createReservation",
            Self::Change => "changeReservation",
            Self::Cancel => "cancelReservation",
        }
    }

    /// The operation of that operationId.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.as_str() == name)
    }

    /// Method of the request.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Create => "POST",
            Self::Change => "PATCH",
            Self::Cancel => "DELETE",
        }
    }

    /// Route of the request.
    #[must_use]
    pub const fn route(self) -> &'static str {
        match self {
            Self::Create => "/reservations",
            Self::Change | Self::Cancel => "/reservations/{id}",
        }
    }
}

/// SHA-256 over account, method, route and key, each with its length before it: the address of a key's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The address of `key` in its scope.
    #[must_use]
    pub fn of(account: &str, operation: Operation, key: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [account, operation.method(), operation.route(), key] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// From the stored bytes; `None` unless there are 32.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The stored bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_scopes_share_an_address() {
        let digests = [
            KeyDigest::of("ab", Operation::Create, "c"),
            KeyDigest::of("a", Operation::Create, "bc"),
            KeyDigest::of("ab", Operation::Change, "c"),
            KeyDigest::of("ab", Operation::Cancel, "c"),
            KeyDigest::of("ab", Operation::Create, "C"),
        ];
        for (i, a) in digests.iter().enumerate() {
            assert!(digests[i + 1..].iter().all(|b| a != b));
        }
    }
}
