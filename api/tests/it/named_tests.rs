//! What the pages in `docs/` say is shown by a test is shown by a test that is there.

use std::path::Path;

#[test]
fn every_test_that_a_page_names_is_there() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    let mut missing = Vec::new();
    for page in std::fs::read_dir(here.join("../docs")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(&page) else { continue };
        for name in text.split('`').skip(1).step_by(2) {
            let Some((file, test)) = name.split_once("::") else { continue };
            let Ok(source) = std::fs::read_to_string(here.join(format!("tests/it/{file}.rs"))) else { continue };
            named += 1;
            if !source.contains(&format!("async fn {test}("))
                || !source.contains(&format!("{test},")) && !source.contains(&format!("{test}]"))
            {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    assert!(named > 60, "the pages name only {named} tests: they are written in another way now");
}
