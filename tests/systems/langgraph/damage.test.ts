import { registerDamage } from "./damage.js";

registerDamage("sqlite");
