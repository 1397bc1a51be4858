// `--version` loads only the version.
const [first, ...others] = process.argv.slice(2);
if (others.length === 0 && (first === "--version" || first === "-V")) {
  const { version } = await import("./version.js");
  process.stdout.write(`${version()}\n`);
} else {
  const { run } = await import("./run.js");
  process.exitCode = await run(process.argv.slice(2), process);
}
