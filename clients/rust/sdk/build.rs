//! Generates the SDK from the committed document.

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = "../../../openapi.yaml";
    println!("cargo::rerun-if-changed={document}");
    let document: openapiv3::OpenAPI = serde_yaml_ng::from_str(&fs::read_to_string(document)?)?;

    let mut settings = progenitor::GenerationSettings::default();
    settings.with_interface(progenitor::InterfaceStyle::Builder);
    let tokens = progenitor::Generator::new(&settings).generate_tokens(&document)?;
    let code = prettyplease::unparse(&syn::parse2(tokens)?);
    fs::write(Path::new(&env::var("OUT_DIR")?).join("sdk.rs"), code)?;
    Ok(())
}
