import type { Lab } from './lab.ts';
import type { Peer } from './peers.ts';
import type { Row } from './rows.ts';

/** What a suite measures with. */
export type Bench = {
  lab: Lab;
  /** How often each side is measured, after one round that warms up. */
  rounds: number;
  /** fastify, hono, json-server and Prism, as far as they are there. */
  peers: readonly Peer[];
  wrk: boolean;
  /** What a command begins with to stay on one core; nothing where that cannot be had. */
  onCore(core: number): readonly string[];
};

export type Suite = {
  usesPeers: boolean;
  run(bench: Bench): Promise<Row[]>;
};
