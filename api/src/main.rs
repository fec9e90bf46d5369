//! `api`: serves everything; prints the document; runs the sandbox alone; makes tokens.

use std::error::Error;
use std::process::ExitCode;

use api::config::{Arguments, Command};
use api::{http, serve, tokens};
use migration::start::StopSignal;
use migration::terminal::{complain, show};

const PROGRAM: &str = "api";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Arguments = match jobs::config::parse(PROGRAM) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(error) = jobs::telemetry::start() {
        complain(PROGRAM, error);
        return ExitCode::from(2);
    }
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(PROGRAM, error);
            ExitCode::FAILURE
        }
    }
}

async fn run(Arguments { command, settings }: Arguments) -> Result<(), Box<dyn Error>> {
    match command {
        None => serve::serve(PROGRAM, settings).await,
        Some(Command::Sandbox) => serve::serve_sandbox(settings).await,
        Some(Command::Openapi) => {
            show(&http::document::yaml());
            Ok(())
        }
        Some(Command::Token(command)) => {
            let mut stop = StopSignal::receive()?;
            let db = jobs::config::open(PROGRAM, &settings.database, &mut stop).await?;
            let (text, note) = stop.unless("the database", tokens::run(&db, &command)).await?;
            show(&text);
            if let Some(note) = note {
                complain(PROGRAM, note);
            }
            Ok(())
        }
    }
}
