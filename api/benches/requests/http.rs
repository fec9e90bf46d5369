//! HTTP/1.1 as far as a load generator needs it.

/// The length of the HTTP message at the head of the buffer, if it is there as a whole.
pub fn message_length(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let body = header(&buffer[..head], "content-length").map_or(0, |v| v.parse::<usize>().expect("a length"));
    (buffer.len() >= head + body).then_some(head + body)
}

/// A header of the message, its name written in small letters.
pub fn header<'a>(message: &'a [u8], name: &str) -> Option<&'a str> {
    let head = message.windows(4).position(|w| w == b"\r\n\r\n")?;
    let lines = std::str::from_utf8(&message[..head]).ok()?.split("\r\n").skip(1);
    lines.filter_map(|line| line.split_once(':')).find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
