// Starts the PostgreSQL server that all *.postgres.test.ts share, and prints how many of their tests ran.
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
  return async () => {
    await cluster?.remove();
    const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const { moduleId, children } of project.vitest.state.getTestModules()) {
      if (!moduleId.endsWith('.postgres.test.ts')) continue;
      for (const test of children.allTests()) counts[test.result().state]++;
    }
    const { passed, failed, skipped, pending } = counts;
    if (installation) {
      console.log(
        `PostgreSQL ${installation.version}: ${passed} tests passed, ${failed} failed, ${skipped} skipped`,
      );
    } else console.log(`PostgreSQL is not installed: ${skipped + pending} tests skipped, ${failed} failed`);
  };
}
