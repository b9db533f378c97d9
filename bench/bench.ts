import type { Lab } from './lab.ts';
import type { Peer } from './peers.ts';
import type { Row } from './rows.ts';

/** The environment in which a suite measures. */
export type Bench = {
  lab: Lab;
  /** How often each side is measured after the warm-up. */
  rounds: number;
  /** The installed servers of other projects. */
  peers: readonly Peer[];
  /** Whether wrk is installed. */
  wrk: boolean;
  /** The prefix that pins a command to a core; empty if the system does not support it. */
  onCore(core: number): readonly string[];
};

export type Suite = {
  usesPeers: boolean;
  run(bench: Bench): Promise<Row[]>;
};
