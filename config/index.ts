export { defineConfig, type WaymarkConfig } from "./config.js";
export { type LoadConfigOptions, type LoadedConfig, loadConfig } from "./load-config.js";
export { type OpenManagerOptions, openManager } from "./open-manager.js";
