//! The page behind a problem's `type`: what happened, what to do, and a request that shows it.

mod english;
mod examples;
mod japanese;

use super::{language::Language, problem::Code};

/// What a page tells about one code. Words between backticks are set as code.
struct Text {
    /// Why the service answers so, and what has become of the key.
    happened: &'static str,
    /// The caller's next step.
    to_do: &'static str,
}

/// The words around the texts.
struct Frame {
    retry: &'static str,
    advice: &'static str,
    happened: &'static str,
    to_do: &'static str,
    example: &'static str,
    all_docs: &'static str,
    other_language: &'static str,
}

/// A self-contained HTML page: no script, nothing loaded from anywhere. Its links are relative, so that it works under any path.
#[must_use]
pub fn page(code: Code, language: Language) -> String {
    let (text, frame, other) = match language {
        Language::English => (english::text(code), english::frame(code.retry()), Language::Japanese),
        Language::Japanese => (japanese::text(code), japanese::frame(code.retry()), Language::English),
    };
    let status = code.status();
    format!(
        r#"<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} ({name})</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ line-height: 1.25; margin-bottom: 0; }}
h2 {{ font-size: 1.1rem; margin: 1.5rem 0 .25rem; }}
p {{ margin: .25rem 0; }}
code, pre {{ font-family: ui-monospace, monospace; font-size: .9em; }}
pre {{ border: 1px solid; border-radius: .4rem; padding: .75rem; overflow-x: auto; }}
nav {{ margin-top: 2rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p><code>{name}</code> &middot; {status}</p>
<h2>{retry_heading}</h2>
<p><code>retry: {retry}</code></p>
<p>{advice}</p>
<h2>{happened_heading}</h2>
<p>{happened}</p>
<h2>{to_do_heading}</h2>
<p>{to_do}</p>
<h2>{example_heading}</h2>
<pre><code>{example}</code></pre>
</main>
<nav><a href="../docs">{all_docs}</a> &middot; <a href="?lang={other_tag}" lang="{other_tag}" hreflang="{other_tag}">{other_language}</a></nav>
</body>
</html>
"#,
        lang = language.tag(),
        title = escape(code.title(language)),
        name = code.as_str(),
        retry_heading = frame.retry,
        retry = code.retry().as_str(),
        advice = marked(frame.advice),
        happened_heading = frame.happened,
        happened = marked(text.happened),
        to_do_heading = frame.to_do,
        to_do = marked(text.to_do),
        example_heading = frame.example,
        example = escape(examples::curl(code)),
        all_docs = frame.all_docs,
        other_tag = other.tag(),
        other_language = frame.other_language,
    )
}

/// Escaped, with words between backticks as code.
fn marked(text: &str) -> String {
    let parts = escape(text);
    parts.split('`').enumerate().map(|(i, part)| if i % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_complete_page_in_both_languages() {
        for code in Code::ALL {
            for (language, text) in [(Language::English, english::text(code)), (Language::Japanese, japanese::text(code))] {
                let html = page(code, language);
                assert!(html.starts_with("<!doctype html>") && html.contains(&format!("<html lang=\"{}\">", language.tag())));
                assert!(html.contains(code.title(language)) && html.contains(code.as_str()) && html.contains(code.status().as_str()));
                assert!(html.contains("curl ") && !html.contains("<script") && !html.contains("src="), "{code:?}");
                for words in [text.happened, text.to_do] {
                    assert!(words.matches('`').count() % 2 == 0, "{code:?}: {words}");
                    assert_eq!(words.is_ascii(), language == Language::English, "{code:?}: {words}");
                }
            }
        }
    }

    #[test]
    fn what_means_something_in_html_is_escaped() {
        assert_eq!(marked("a `<b>` & \"c\""), "a <code>&lt;b&gt;</code> &amp; &quot;c&quot;");
    }
}
