// Starts the PostgreSQL server that all *.postgres.test.ts share.
import type { TestProject } from 'vitest/node';
import { createCluster } from '../test/helpers/postgres/cluster.ts';
import { findPostgres } from '../test/helpers/postgres/programs.ts';

declare module 'vitest' {
  interface ProvidedContext {
    postgresPort: number | undefined;
  }
}

export default async function setup(project: TestProject) {
  const installation = findPostgres();
  // Without fsync, tests are faster. A test that kills a server starts a server of its own for this.
  const cluster =
    installation && (await createCluster({ settings: { fsync: 'off', full_page_writes: 'off' } }));
  project.provide('postgresPort', cluster?.port);
  return () => cluster?.remove();
}
