import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { drawPicture, PICTURE } from '../../.config/picture.ts';
import { needsPostgres, testBlocks } from '../helpers/document-tests.ts';
import { hasTerminal } from '../helpers/pseudo-terminal.ts';

// test/helpers/document-blocks.ts describes the comments that say how a block is run.

describe('each block of the documents runs, and shows what the program prints', () => {
  testBlocks(
    (block) => !needsPostgres(block) && (block.document !== 'README.md' || block.language !== 'console'),
  );
});

test.skipIf(!hasTerminal())(
  'the picture in the README shows the current output of the program (npm run picture redraws it)',
  async () => expect((await drawPicture()) === readFileSync(PICTURE, 'utf8')).toBe(true),
);
