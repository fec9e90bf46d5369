//! Undoes the content codings of an answer (RFC 9110, section 8.4), in bounded memory.

use std::io::{self, BufRead, BufReader, Read};

use reqwest::header::{self, HeaderMap};

use super::Unknown;

/// RFC 9659: no decoder has to keep more than 8 MiB of a zstd frame.
const ZSTD_WINDOW_LOG: u32 = 23;
/// A name is cut here: it comes from outside and goes into the log and the journal.
const NAME_LIMIT: usize = 40;

/// What we can undo, as we announce it.
pub(super) const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// The body without its codings. Decoding stops at the first byte beyond `limit`, so a body that unpacks to gigabytes costs no memory.
///
/// # Errors
/// [`Unknown::Coding`] for a coding that is not one of [`ACCEPTED`]; [`Unknown::Unreadable`] for a body that is damaged, or decodes to
/// more than `limit` bytes.
pub(super) fn decode(headers: &HeaderMap, body: Vec<u8>, limit: usize) -> Result<Vec<u8>, Unknown> {
    // An answer without a body may name a coding all the same.
    let is_empty = body.is_empty();
    let mut reader: Box<dyn BufRead> = Box::new(io::Cursor::new(body));
    for coding in codings(headers).iter().rev() {
        reader = decoder(coding, reader)?;
    }
    if is_empty {
        return Ok(Vec::new());
    }
    let mut decoded = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match reader.take(most).read_to_end(&mut decoded) {
        Ok(length) if length <= limit => Ok(decoded),
        Ok(_) | Err(_) => Err(Unknown::Unreadable),
    }
}

/// In the order in which they were applied; several lines are one list.
fn codings(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter().map(|line| String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase());
    let names = lines.flat_map(|line| line.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty() && name != "identity").collect()
}

fn decoder(coding: &str, coded: Box<dyn BufRead>) -> Result<Box<dyn BufRead>, Unknown> {
    Ok(match coding {
        "gzip" | "x-gzip" => buffered(flate2::bufread::MultiGzDecoder::new(coded)),
        "deflate" => return inflate(coded).map_err(|_| Unknown::Unreadable),
        "br" => buffered(brotli_decompressor::Decompressor::new(coded, 4096)),
        "zstd" => {
            let mut decoder = zstd::Decoder::with_buffer(coded).map_err(|_| Unknown::Unreadable)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(|_| Unknown::Unreadable)?;
            buffered(decoder)
        }
        unknown => return Err(Unknown::Coding(unknown.escape_default().take(NAME_LIMIT).collect())),
    })
}

/// `deflate` is the zlib format, but some send the bare stream (RFC 9110, section 8.4.1.2). Only zlib begins with a method of 8 and a
/// check value.
fn inflate(mut coded: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
    let zlib = match *coded.fill_buf()? {
        [method, flags, ..] => method & 0x0f == 8 && u16::from_be_bytes([method, flags]).is_multiple_of(31),
        _ => true,
    };
    Ok(match zlib {
        true => buffered(flate2::bufread::ZlibDecoder::new(coded)),
        false => buffered(flate2::bufread::DeflateDecoder::new(coded)),
    })
}

fn buffered(reader: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::new(reader))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::Write;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (header::CONTENT_ENCODING, line.parse().unwrap())).collect()
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(body: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn deflate(body: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(body: &[u8]) -> Vec<u8> {
        zstd::encode_all(body, 3).unwrap()
    }

    #[test]
    fn every_spelling_of_every_coding_is_undone() {
        let body = b"{\"booking_id\":\"BK-1\"}".to_vec();
        for (lines, coded) in [
            (&[][..], body.clone()),
            (&["identity"], body.clone()),
            (&["", " , "], body.clone()),
            (&["gzip"], gzip(&body)),
            (&["GZip"], gzip(&body)),
            (&["x-gzip"], gzip(&body)),
            (&["deflate"], zlib(&body)),
            (&["deflate"], deflate(&body)),
            (&["zstd"], zstd(&body)),
            (&["gzip, zstd"], zstd(&gzip(&body))),
            (&["gzip", "identity", "deflate"], zlib(&gzip(&body))),
        ] {
            assert_eq!(decode(&headers(lines), coded, LIMIT), Ok(body.clone()), "{lines:?}");
        }
        // Brotli keeps two bytes as they are.
        assert_eq!(decode(&headers(&["br"]), vec![0x8b, 0x00, 0x80, b'{', b'}', 0x03], LIMIT), Ok(b"{}".to_vec()));
        for coding in ["gzip", "deflate", "br", "zstd"] {
            assert_eq!(decode(&headers(&[coding]), Vec::new(), LIMIT), Ok(Vec::new()), "{coding}");
        }
    }

    #[test]
    fn what_cannot_be_undone_says_why() {
        let name = |line: &str| match decode(&headers(&[line]), vec![1], LIMIT) {
            Err(Unknown::Coding(name)) => name,
            other => panic!("{other:?}"),
        };
        assert_eq!(name("dcb"), "dcb");
        assert_eq!(name("gzip, compress"), "compress");
        assert_eq!(name(&"x".repeat(500)).len(), NAME_LIMIT);
        for (line, body) in [("gzip", b"{}".to_vec()), ("br", vec![0xff; 9]), ("zstd", b"{}".to_vec()), ("deflate", vec![0xff; 9])] {
            assert_eq!(decode(&headers(&[line]), body, LIMIT), Err(Unknown::Unreadable), "{line}");
        }
        let whole = gzip(&[b'x'; 4096]);
        assert_eq!(decode(&headers(&["gzip"]), whole[..whole.len() - 9].to_vec(), LIMIT), Err(Unknown::Unreadable));
    }

    #[test]
    fn the_limit_counts_decoded_bytes() {
        let (fits, too_large) = (vec![0; LIMIT], vec![0; LIMIT + 1]);
        for (line, code) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("deflate", zlib), ("zstd", zstd)] {
            assert_eq!(decode(&headers(&[line]), code(&fits), LIMIT).map(|body| body.len()), Ok(LIMIT), "{line}");
            assert_eq!(decode(&headers(&[line]), code(&too_large), LIMIT), Err(Unknown::Unreadable), "{line}");
        }
    }
}
