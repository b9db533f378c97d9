import { describe } from 'vitest';
import { testBlocks } from '../../helpers/document-machine.ts';

describe('each block of the documents that needs PostgreSQL runs', () => {
  testBlocks(({ directives }) => directives.includes('postgres'));
});
