// At the end of a run, prints how many tests were skipped because this machine lacks something, and what it lacks.
import type { TestProject } from 'vitest/node';

export default (project: TestProject) => () => {
  const counts = new Map<string, number>();
  for (const { children } of project.vitest.state.getTestModules()) {
    for (const test of children.allTests()) {
      const result = test.result();
      const reason = result.state === 'skipped' ? result.note : undefined;
      if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1);
    }
  }
  for (const [reason, count] of counts) console.log(`skipped ${count}: ${reason}`);
};
