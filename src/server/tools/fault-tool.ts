import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { describeFirstIssue } from '../../contract/issues.ts';
import type { FaultSettings } from '../faults/fault-settings.ts';
import type { Faults } from '../faults/faults.ts';
import { invalidRequest } from '../http-errors.ts';
import { readJsonBody } from '../request/body.ts';
import type { ServiceResponse } from '../response.ts';
import type { ToolMethods } from './tool-requests.ts';

/** The methods of `/faults`, each of which responds with the current settings (docs/service.md 11). */
export function createFaultTool(faults: Faults): ToolMethods {
  const show = (): ServiceResponse => ({
    status: 200,
    headers: {},
    body: JSON.stringify(faults.current()),
  });
  return {
    GET: async () => show(),
    async PUT(request) {
      faults.replace(await readSettings(request));
      return show();
    },
    async DELETE() {
      faults.replace({});
      return show();
    },
  };
}

/** @throws ServiceError 400, 413 or 415 */
async function readSettings(request: IncomingMessage): Promise<FaultSettings> {
  const value = await readJsonBody(request);
  // Load the module only when settings are sent, for a faster start.
  const { FaultSettings } = await import('../faults/fault-settings.ts');
  const { success, data, error } = z.safeParse(FaultSettings, value);
  if (!success) throw invalidRequest(describeFirstIssue(error, 'The body'));
  return data;
}
