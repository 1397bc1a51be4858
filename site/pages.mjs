// @ts-check
// The guides of the site, in the order of its side bar. Each is a Markdown file of the repository, readable there too.

/**
 * @typedef {object} Page
 * @property {string} source - The file, from the repository's root.
 * @property {string} path - The page's address on the site, without an ending.
 * @property {string} title - Its name in the side bar.
 * @property {string} about - A line for lists and for llms.txt.
 */

/** @typedef {{ readonly title: string, readonly pages: readonly Page[] }} Group */

/** @type {readonly Group[]} */
export const groups = [
  {
    title: "Start",
    pages: [
      page(
        "docs/getting-started.md",
        "Getting started",
        "From nothing to a program that resumes after a kill, in five minutes.",
      ),
      page(
        "README.md",
        "Overview",
        "Waymark on one page: a program, four figures, the alternatives, the storages.",
        "overview",
      ),
      page(
        "docs/concepts.md",
        "Concepts",
        "Task, record, checkpoint, run, step, lease: each term in two or three sentences.",
      ),
      page(
        "docs/coming-from.md",
        "Coming from …",
        "LangGraph's savers, DBOS, Temporal, conf, lowdb and a JSON file of your own, each beside Waymark.",
      ),
    ],
  },
  {
    title: "Runs",
    pages: [
      page(
        "docs/runs.md",
        "Runs and steps",
        "Resumable functions: steps, turns, what runs twice, changed code, tests.",
      ),
      page(
        "docs/saving.md",
        "Saving a state yourself",
        "Programs without steps: save, schemas, auto-save, leases, forks, encryption.",
      ),
      page("docs/waiting.md", "Waiting for people", "Approvals, webhooks and sleeps that outlive a deployment."),
      page("docs/following.md", "Following a run", "Progress, streamed tokens and results in other processes."),
      page("docs/workers.md", "Workers", "Runs in a queue, on many machines: takeover, drain, retries, versions."),
      page("docs/recipes.md", "Recipes", "Fan-out with partial failure, and compensation: whole programs."),
      page("docs/testing.md", "Testing", "Runs and workers in simulated time, or with Vitest's fake timers."),
      page("docs/ctrl-c.md", "What happens at Ctrl-C", "Signals, pauses and what is saved."),
    ],
  },
  {
    title: "Agents and plans",
    pages: [
      page(
        "docs/langgraph.md",
        "LangGraph",
        "A checkpointer for LangGraph.js: approval, time travel, encryption, many machines.",
      ),
      page(
        "docs/plans.md",
        "Plans and PRPs",
        "Run PRPs, and the lists of spec-kit, Kiro, OpenSpec and others, with a coder and gates.",
      ),
      page("docs/systems.md", "Gates, builds, phases", "The four systems that run on Waymark, in detail."),
      page(
        "docs/AGENTS-template.md",
        "An AGENTS.md to copy",
        "How an agent makes a task resumable, and looks at one that failed.",
        "agents",
      ),
    ],
  },
  {
    title: "Storages",
    pages: [
      page("docs/storages.md", "Choosing a storage", "Each storage, what it promises, and when to take it."),
      page(
        "docs/retention.md",
        "Retention cookbook",
        "Policies for common needs, and how to see what they would remove.",
      ),
      page("docs/configuration.md", "Configuration", "Program and command share waymark.config.*."),
      page("docs/modules.md", "CommonJS, Jest and bundles", "What to do where ES modules aren't the default."),
    ],
  },
  {
    title: "Operating",
    pages: [
      page("docs/durability.md", "Durability", "The promise, how it is tested, damage, verify and repair."),
      page("docs/proof.md", "Proof", "Check the history of your own processes or adapter."),
      page("docs/security.md", "Security", "Who can do what to a store; encryption, rotation, redaction."),
      page("docs/performance.md", "Performance", "Measured beside the peers; what a history costs; the event loop."),
      page(
        "docs/observability.md",
        "Observability",
        "Spans and metrics with OpenTelemetry; the channels of node:diagnostics_channel.",
      ),
      page("docs/postgres.md", "PostgreSQL", "Options, poolers, failover, histories."),
      page(
        "docs/fleet.md",
        "Operating a fleet",
        "What workers ask of PostgreSQL; retention, stuck tasks, versions, backups.",
      ),
      page("docs/scaling.md", "Scaling on PostgreSQL", "Ten million tasks on one server, and how to spread them."),
    ],
  },
  {
    title: "The command",
    pages: [
      page(
        "cli/README.md",
        "The waymark command",
        "Looks at checkpoints of any storage, and works on them.",
        "command",
      ),
      page("docs/ui.md", "The page", "waymark ui shows the checkpoints of any storage in a browser."),
      page("docs/command-output.md", "Output for programs", "The shapes of each command's --json and --ndjson."),
    ],
  },
  {
    title: "For authors",
    pages: [
      page(
        "docs/writing-an-adapter.md",
        "Writing an adapter",
        "From an empty file to an adapter that passes the published suite.",
      ),
      page("docs/formats.md", "What is stored", "Each storage's format, byte by byte."),
      page("ARCHITECTURE.md", "Architecture", "A newcomer's tour; the way of a save and of a read.", "architecture"),
      page("CONTRIBUTING.md", "Contributing", "How to work on Waymark.", "contributing"),
      page("runners/README.md", "The runners' package", "What waymark-runners holds.", "runners"),
      page(
        "bench/README.md",
        "Benchmarks",
        "Each promise of speed against a bare baseline, and which fall short.",
        "benchmarks",
      ),
      page("docs/decisions/README.md", "Decisions", "Choices that are hard to reverse, and why.", "decisions/"),
      page("SECURITY.md", "Reporting a vulnerability", "Where to report what, and what counts.", "reporting"),
      page("CHANGELOG.md", "Changelog", "What has changed.", "changelog"),
    ],
  },
  {
    title: "Examples",
    pages: [
      page("examples/agent/README.md", "An agent", "On the Vercel AI SDK, killed and forked.", "examples/agent"),
      page(
        "examples/live/README.md",
        "Live reports",
        "Streamed into a page that survives a killed server.",
        "examples/live",
      ),
      page(
        "examples/langgraph-agent/README.md",
        "A LangGraph agent",
        "Killed, asked, forked.",
        "examples/langgraph-agent",
      ),
      page(
        "examples/migration/README.md",
        "A migration",
        "10,000 rows in batches, killed on the way.",
        "examples/migration",
      ),
      page(
        "examples/two-machines/README.md",
        "Two machines",
        "Leases and killed workers over PostgreSQL.",
        "examples/two-machines",
      ),
      page(
        "examples/observability/README.md",
        "Observability",
        "Spans, metrics, and a dashboard for Grafana.",
        "examples/observability",
      ),
      page(
        "examples/prp-pipeline/README.md",
        "A PRP pipeline",
        "A real PRP, killed in the middle of a gate.",
        "examples/prp-pipeline",
      ),
      page(
        "examples/sharding/README.md",
        "Many databases",
        "Tasks spread over databases by their ids; a shard moves.",
        "examples/sharding",
      ),
      page("examples/custom-adapter/README.md", "A custom adapter", "Over unstorage.", "examples/custom-adapter"),
      page("examples/redis-adapter/README.md", "A Redis adapter", "For many machines.", "examples/redis-adapter"),
    ],
  },
];

/**
 * @param {string} source
 * @param {string} title
 * @param {string} about
 * @param {string} [path]
 * @returns {Page}
 */
function page(source, title, about, path = source.replace(/^docs\/|\.md$/g, "")) {
  return { source, path, title, about };
}
