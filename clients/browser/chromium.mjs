/** Debian's Chromium, or the one that CHROMIUM names. */
import { chromium } from "playwright-core";

const ARGUMENTS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
ARGUMENTS.push("--disable-component-update", "--disable-sync");
if (process.getuid?.() === 0) ARGUMENTS.push("--no-sandbox"); // it refuses to run as root otherwise

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
