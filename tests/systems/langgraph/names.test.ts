import { registerNames } from "./names.js";

registerNames("memory");
registerNames("sqlite");
