//! `api`: serves everything; prints the document; runs the sandbox alone; makes tokens.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its answer and its one line of error")]

use std::process::ExitCode;

use api::config::{Arguments, Command};
use api::{http, serve, tokens};
use entity::database::Database;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Arguments = match jobs::config::parse("api") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(error) = jobs::telemetry::start() {
        eprintln!("api: {error}");
        return ExitCode::from(2);
    }
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("api: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Arguments { command, settings }: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        None => serve::serve(settings).await,
        Some(Command::Sandbox) => serve::serve_sandbox(settings).await,
        Some(Command::Openapi) => {
            print!("{}", http::document::yaml());
            Ok(())
        }
        Some(Command::Token(command)) => {
            let db = Database::connect(&settings.database.settings()).await?;
            db.migrate().await?;
            let (text, note) = tokens::run(&db, &command).await?;
            print!("{text}");
            if let Some(note) = note {
                eprintln!("api: {note}");
            }
            Ok(())
        }
    }
}
