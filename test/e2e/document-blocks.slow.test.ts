import { describe } from 'vitest';
import { testBlocks } from '../helpers/document-tests.ts';

// test/helpers/document-blocks.ts describes the comments that say how a block is run.

describe('each block of the documents runs, and shows what the program prints', () => {
  testBlocks(({ document, language }) => document !== 'README.md' || language !== 'console');
});
