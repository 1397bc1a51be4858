export { type ChannelMigration, WaymarkSaver, type WaymarkSaverOptions } from "./saver.js";
