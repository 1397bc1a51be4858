import { inFolder, registerSuite } from "./suite.js";

registerSuite("sqlite", () => inFolder((folder) => `sqlite:${folder}/agent.db`));
