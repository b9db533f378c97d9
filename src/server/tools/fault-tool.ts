import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { describeFirstIssue } from '../../contract/issues.ts';
import { invalidRequest } from '../errors.ts';
import type { Faults } from '../faults/faults.ts';
import { readJsonBody } from '../request/input.ts';
import type { ServiceResponse } from '../response.ts';
import type { ToolMethods } from '../routes.ts';

/** The methods of `/faults`, each of which responds with the current settings (docs/service.md 11). */
export function createFaultTool(faults: Faults): ToolMethods {
  const show = (): ServiceResponse => ({ status: 200, body: JSON.stringify(faults.current()) });
  return {
    GET: async () => show(),
    async POST(request) {
      const { FaultRule, MAX_RULES } = await loadSchemas();
      const rule = await readAs(FaultRule, request);
      const isAdded = faults.add(rule, MAX_RULES);
      if (!isAdded) throw invalidRequest(`There are ${MAX_RULES} rules already, which is the limit`);
      return show();
    },
    async PUT(request) {
      faults.replace(await readAs((await loadSchemas()).FaultSettings, request));
      return show();
    },
    async DELETE() {
      faults.replace({});
      return show();
    },
  };
}

/** Loads the module only when faults are set, for a faster start. */
const loadSchemas = () => import('../faults/fault-settings.ts');

/** @throws ServiceError 400, 413 or 415 */
async function readAs<Schema extends z.ZodMiniType>(
  schema: Schema,
  request: IncomingMessage,
): Promise<z.output<Schema>> {
  const { success, data, error } = z.safeParse(schema, await readJsonBody(request));
  if (!success) throw invalidRequest(describeFirstIssue(error, 'The body'));
  return data;
}
