export type { ChannelMigration } from "./migrations.js";
export type { WaymarkSaverOptions } from "./options.js";
export { WaymarkSaver } from "./saver.js";
export type { DeletedThreads, DeleteThreadsQuery, ThreadSummary, ThreadsQuery } from "./thread-list.js";
