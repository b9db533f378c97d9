import { expect, test } from 'vitest';
import { type Block, groupSessions, locationOf, readBlocks, type Session } from './document-blocks.ts';
import { missingPrograms, runnableLanguages, runSession } from './document-session.ts';
import { documents } from './documents.ts';

const isRunnable = ({ language }: Block) => runnableLanguages.includes(language);

/** Whether a block runs on a machine with PostgreSQL. */
export const needsPostgres = ({ directives }: Block): boolean =>
  directives.some((each) => each.startsWith('postgres'));

/** Whether a block runs in a new installation of Debian. */
export const needsDebian = ({ directives }: Block): boolean => directives.includes('debian');

/** Declares a test for each session whose first block is selected. */
export function testBlocks(isSelected: (block: Block) => boolean): void {
  const sessions = documents.flatMap((document) => groupSessions(readBlocks(document).filter(isRunnable)));
  for (const session of sessions) {
    const [first] = session.blocks;
    if (first && !needsDebian(first) && isSelected(first)) testSession(session, first);
  }
}

function testSession(session: Session, first: Block): void {
  const [firstLine = ''] = first.text.trim().split('\n');
  const name = `${locationOf(first)} ${firstLine.replace(/\s+#.*$/, '')}`;
  if (first.skipReason !== undefined) {
    test.skip(`${name} (${first.skipReason})`, () => {});
    return;
  }
  const missing = missingPrograms(session);
  const reason = missing.length > 0 ? ` (not installed: ${missing.join(', ')})` : '';
  test.skipIf(missing.length > 0)(`${name}${reason}`, { timeout: 120_000 }, async () => {
    expect((await runSession(session)).join('\n\n')).toBe('');
  });
}
