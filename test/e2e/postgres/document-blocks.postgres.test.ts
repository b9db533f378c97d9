import { describe } from 'vitest';
import { needsPostgres, testBlocks } from '../../helpers/document-blocks.ts';

describe('the blocks of the documents that need PostgreSQL run', () => testBlocks(needsPostgres));
