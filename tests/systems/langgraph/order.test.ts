import { registerOrder } from "./order.js";

registerOrder(["memory", "sqlite"]);
