import { registerNames } from "./names.js";

registerNames("sqlite");
