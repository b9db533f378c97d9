import { MemoryStore } from '../helpers/store-memory.ts';
import { describeStore } from './contract.ts';

describeStore('the memory store', async (clock) => new MemoryStore(clock));
