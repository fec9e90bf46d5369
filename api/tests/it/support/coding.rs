//! Content codings, as the booking system applies them.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

/// The body in these codings, applied in the order of the list; one that nobody knows leaves it as it is.
pub fn encode(names: &str, body: &[u8]) -> Vec<u8> {
    names.split(',').map(str::trim).fold(body.to_vec(), |body, name| pack(name, &mut body.as_slice()))
}

/// The same of one coding, and of a body of any length.
pub fn pack(name: &str, body: &mut dyn Read) -> Vec<u8> {
    let mut coded = Vec::new();
    match name {
        "gzip" | "x-gzip" => fill(GzEncoder::new(&mut coded, Compression::fast()), body),
        "deflate" => fill(ZlibEncoder::new(&mut coded, Compression::fast()), body),
        "Deflate" => fill(DeflateEncoder::new(&mut coded, Compression::fast()), body),
        "br" => fill(brotli::CompressorWriter::new(&mut coded, 1 << 16, 1, 22), body),
        "zstd" => fill(zstd::Encoder::new(&mut coded, 1).expect("an encoder").auto_finish(), body),
        _ => fill(&mut coded, body),
    }
    coded
}

/// The encoders end their stream when they are dropped.
fn fill(mut encoder: impl Write, body: &mut dyn Read) {
    std::io::copy(body, &mut encoder).expect("memory takes all");
}
