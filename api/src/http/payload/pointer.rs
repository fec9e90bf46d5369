//! JSON Pointers (RFC 6901) to where a fault is.

/// A pointer repeats the caller's own member names; longer ones stop at an ancestor, so that no answer outgrows its request.
const MAX_LENGTH_BYTES: usize = 256;

/// One step from a JSON value to one inside it.
#[derive(Debug)]
pub(super) enum Step {
    /// The member of this name.
    Member(String),
    /// The element at this index.
    Element(usize),
}

/// The pointer to a member of the top-level object.
pub(super) fn to_member(name: &str) -> String {
    let pointer = format!("/{}", escape(name));
    if pointer.len() <= MAX_LENGTH_BYTES { pointer } else { String::new() }
}

/// The pointer along these steps.
pub(super) fn along(path: &[Step]) -> String {
    let mut pointer = String::new();
    for step in path {
        let token = match step {
            Step::Member(name) => escape(name),
            Step::Element(index) => index.to_string(),
        };
        if pointer.len() + 1 + token.len() > MAX_LENGTH_BYTES {
            break;
        }
        pointer.push('/');
        pointer.push_str(&token);
    }
    pointer
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_long_ones_cut_to_an_ancestor() {
        assert_eq!(to_member("a/b~c"), "/a~1b~0c");
        assert_eq!(to_member(""), "/");
        assert_eq!(to_member(&"x".repeat(256)), "");
        let path = [Step::Member("a".to_owned()), Step::Element(3), Step::Member("x".repeat(300)), Step::Element(0)];
        assert_eq!(along(&path), "/a/3");
    }
}
