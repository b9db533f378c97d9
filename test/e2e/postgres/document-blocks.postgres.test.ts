import { describe } from 'vitest';
import { needsPostgres, testBlocks } from '../../helpers/document-tests.ts';

describe('each block of the documents that needs PostgreSQL runs', () => {
  testBlocks(needsPostgres);
});
