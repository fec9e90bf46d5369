//! Lines for whoever looks at a terminal. What they repeat, of an argument or of stored data, never steers the terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;

/// The text with its control characters spelled out (`\n`, `\u{1b}`), and with those that turn the direction of writing.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let spelled = |c: char| if steers(c) { c.escape_default().collect::<String>() } else { c.to_string() };
    Cow::Owned(text.chars().map(spelled).collect())
}

fn steers(c: char) -> bool {
    // Line and paragraph separators, and the embeddings, overrides and isolates of Unicode's bidirectional algorithm.
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One line on standard error, under the name of the program. Where nobody takes it, it is lost: no reason to die.
pub fn complain(program: &str, line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{program}: {}", printable(&line.to_string()));
}

/// One line on standard output. Where nobody takes it, on a full disk or a closed pipe, it is lost: no reason to die.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{}", printable(&line.to_string()));
}

/// Lines on standard output, each of them with its end.
pub fn show(text: &str) {
    text.lines().for_each(say);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_steers_the_terminal() {
        for (text, shown) in [
            ("plain, 予約 and ü", "plain, 予約 and ü"),
            ("two\nlines\r", "two\\nlines\\r"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{9b}1mC1\u{7f}\0", "\\u{9b}1mC1\\u{7f}\\u{0}"),
            ("a\u{202e}b\u{2066}c\u{2028}", "a\\u{202e}b\\u{2066}c\\u{2028}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
