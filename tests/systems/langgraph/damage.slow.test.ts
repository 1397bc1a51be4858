import { registerDamage } from "./damage.js";

registerDamage("json-file");
registerDamage("task-file");
registerDamage("postgres");
