#!/usr/bin/env node
// Committed, unlike dist/, so that npm finds it, and may run it, before the first build.

// Checkpoints stream through: a young generation that grows would hold them for longer, and take 50 MB more. V8 prints
// an error at a flag that it doesn't know, so only versions that have it are told. It takes 8 ms, which completion, at a
// keystroke, doesn't spend for the few names that it reads.
if (process.argv[2] !== "__complete" && Number.parseInt(process.versions.node, 10) <= 24) {
  const { setFlagsFromString } = await import("node:v8");
  setFlagsFromString("--semi-space-growth-factor=1");
}
await import("../dist/main.js");
