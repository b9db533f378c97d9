import type { Lab } from './lab.ts';
import type { Peer } from './peers.ts';
import type { Row } from './rows.ts';

/** What a suite measures with. */
export type Bench = {
  lab: Lab;
  /** How often each side is measured, after one warm-up round. */
  rounds: number;
  /** Those of fastify, hono, json-server and Prism that are installed. */
  peers: readonly Peer[];
  wrk: boolean;
  /** The prefix that pins a command to a core; empty if the system does not support it. */
  onCore(core: number): readonly string[];
};

export type Suite = {
  usesPeers: boolean;
  run(bench: Bench): Promise<Row[]>;
};
