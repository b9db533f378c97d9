import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Cluster, createCluster } from '../test/helpers/postgres/cluster.ts';
import { findPostgres } from '../test/helpers/postgres/programs.ts';
import { delayingProxy } from './delay.ts';
import type { Lab } from './lab.ts';
import { childrenOf, processorTime, runCommand } from './processes.ts';
import { pets, type Server, serve, start } from './servers.ts';
import type { Contestant } from './wrk.ts';

/** A PostgreSQL server with stores. */
export class BenchDatabase {
  #lab: Lab;
  #cluster: Cluster;
  #programs: string;

  private constructor(lab: Lab, cluster: Cluster, programs: string) {
    this.#lab = lab;
    this.#cluster = cluster;
    this.#programs = programs;
  }

  /** Starts a PostgreSQL server. Undefined if PostgreSQL is not installed. */
  static async start(lab: Lab): Promise<BenchDatabase | undefined> {
    const installation = findPostgres();
    return installation && new BenchDatabase(lab, await createCluster(), installation.directory);
  }

  /** Creates a store with `count` animals and an API key. */
  async createStore(count: number): Promise<{ url: string; key: string }> {
    const url = await this.#cluster.createDatabase();
    await runCommand(this.#lab, [process.execPath, pets, 'store', 'migrate', url]);
    const addKey = 'keys add bench --plan enterprise --json --data'.split(' ');
    const { stdout } = await runCommand(this.#lab, [process.execPath, pets, ...addKey, url]);
    await this.sql(
      url,
      `insert into pets.animals
        select n, n % 3, format('{"id":%s,"name":"Animal %s","categoryId":1,"status":"%s"}',
          n, n, (array['available', 'pending', 'sold'])[n % 3 + 1])
        from generate_series(1, ${count}) n;`,
    );
    await this.sql(url, 'vacuum analyze pets.animals');
    return { url, key: JSON.parse(stdout).key };
  }

  /** Starts `count` servers of a store. */
  serve({ url, key }: { url: string; key: string }, count: number): Promise<Server[]> {
    const launch = () => start(this.#lab, { args: serve('--data', url), key });
    return Promise.all(Array.from({ length: count }, launch));
  }

  /** A proxy to the server, with a round trip that takes at least this long. `urlOf` puts the proxy into a URL. */
  async delayed(roundTripMilliseconds: number) {
    const { port, close } = await delayingProxy(this.#cluster.port, roundTripMilliseconds);
    return { close, urlOf: (url: string) => url.replace(`:${this.#cluster.port}/`, `:${port}/`) };
  }

  /** Returns a contestant that runs a script of pgbench with 32 connections. */
  pgbench(url: string, script: string): Contestant {
    const file = this.#lab.path('pgbench.sql');
    const options = ['-n', '-M', 'prepared', '-c', '32', '-j', '1', '-f', file];
    return {
      rate: async (seconds) => {
        writeFileSync(file, script);
        const command = [join(this.#programs, 'pgbench'), ...options, '-T', String(seconds), url];
        const { stdout } = await runCommand(this.#lab, command);
        return Number(/^tps = ([\d.]+)/m.exec(stdout)?.[1]);
      },
      async stop() {},
    };
  }

  /** Runs a statement in the database of a URL. */
  async sql(url: string, text: string): Promise<void> {
    await this.#cluster.sql(basename(url), text);
  }

  /** The processor time of all processes of the database so far, in milliseconds; undefined without /proc. */
  processorTime(): number | undefined {
    const pidFile = join(this.#cluster.directory, 'data', 'postmaster.pid');
    const postmaster = Number.parseInt(readFileSync(pidFile, 'utf8'), 10);
    let total = processorTime(postmaster);
    for (const pid of childrenOf(postmaster)) total = total && total + (processorTime(pid) ?? 0);
    return total;
  }

  remove(): Promise<void> {
    return this.#cluster.remove();
  }
}
