//! The page for people: what the sandbox is, what misbehaves, what was booked.

use std::fmt::Write as _;

use super::ledger::Entry;
use super::misbehaviour::CATALOGUE;

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sandbox booking system</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #ccc }
.cancelled { text-decoration: line-through; color: #666 } .scroll { overflow-x: auto }
</style>
<h1>Sandbox booking system</h1>
<p>This stands for the external system that really books. The reservation API calls it as it would call a real one; what it
has booked is listed below, so that you can see how many bookings a retried request made.
Its interface: <a href="openapi.yaml">openapi.yaml</a>, <a href="openapi.json">openapi.json</a>.</p>
<h2>Item codes that misbehave</h2>
<p>Reserve one of these through the API. A look-up, a change and a cancellation always behave.</p>
"#;

/// Renders the page.
pub(super) fn render(entries: &[Entry], limit: usize) -> String {
    let mut page = String::from(HEAD);
    page.push_str("<table>\n");
    for (code, what) in CATALOGUE {
        let _ = writeln!(page, "<tr><td><code>{code}</code><td>{what}");
    }
    let _ = write!(page, "</table>\n<h2>Bookings</h2>\n<p>The newest {limit}, newest first.</p>\n<div class=\"scroll\"><table>\n<tr>");
    for title in ["Booking", "Reference", "Item", "Quantity", "For", "From", "To", "Note"] {
        let _ = write!(page, "<th>{title}");
    }
    page.push('\n');
    for Entry { booking, cancelled } in entries {
        let request = &booking.request;
        page.push_str(if *cancelled { "<tr class=\"cancelled\" title=\"cancelled\">" } else { "<tr>" });
        let quantity = request.quantity.to_string();
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        for cell in [
            &booking.booking_id,
            &request.reference,
            &request.item_code,
            &quantity,
            &request.reserved_by,
            &optional(&request.starts_at),
            &optional(&request.ends_at),
            &optional(&request.note),
        ] {
            let _ = write!(page, "<td>{}", escape(cell));
        }
        page.push('\n');
    }
    if entries.is_empty() {
        page.push_str("<tr><td colspan=\"8\">None yet.\n");
    }
    page.push_str("</table></div>\n</html>\n");
    page
}

/// Callers choose these texts; as HTML they are only text.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
