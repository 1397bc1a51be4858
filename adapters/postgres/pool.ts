import { isError, StorageError } from "../../src/contract/errors.js";
import { loadPackage } from "../../src/contract/load-package.js";
import type { PostgresPool } from "./connection.js";

interface Pg {
  readonly Pool: new (options: object) => PostgresPool;
  readonly Client: new (
    options: object,
  ) => {
    connect(done: (error?: Error) => void): void;
    end(done: () => void): void;
  };
}

/** @throws {StorageError} pg can't be loaded. */
function loadPg(): Pg {
  try {
    // The type is asserted, since only pg's own declarations could prove it.
    return loadPackage("pg") as Pg;
  } catch (cause) {
    const [reason = ""] = (isError(cause) ? cause.message : String(cause)).split("\n", 1);
    throw new StorageError(
      `pg can't be loaded: ${reason}. Nothing was read or written. Run \`npm install pg\`. For a bundle, install it where ` +
        "the bundle runs, or pass a `pool`.",
      { cause },
    );
  }
}

/** How long a server may take to accept a connection. */
const LOGIN_MS = 10_000;
const QUERY_MS = 120_000;

export function makePool(url: string): PostgresPool {
  const pg = loadPg();
  class Client extends pg.Client {
    constructor(options: object) {
      super({ ...options, connectionTimeoutMillis: LOGIN_MS });
    }

    /**
     * Closes the connection if the login fails. If a password is missing, pg leaves the connection open, and the
     * program would run until the server closes it.
     */
    override connect(done: (error?: Error) => void): void {
      super.connect((error) => {
        if (error) this.end(() => undefined);
        done(error);
      });
    }
  }
  return new pg.Pool({
    Client,
    connectionString: url,
    fallback_application_name: "waymark",
    // Also limits how long a call waits in pg's pool while all connections are busy.
    connectionTimeoutMillis: QUERY_MS,
    // Without this limit, the system would report a vanished host only after a quarter of an hour.
    query_timeout: QUERY_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // Lets a program exit even if it doesn't close its storage.
    allowExitOnIdle: true,
  });
}
