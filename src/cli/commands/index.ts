import type { Command, CommandGroup } from '../program/command.ts';
import { add } from './add.ts';
import { completion } from './completion.ts';
import { countCommand } from './count.ts';
import { get } from './get.ts';
import { help } from './help.ts';
import { importCommand } from './import.ts';
import { keys } from './keys.ts';
import { find, list } from './list.ts';
import { login, logout } from './login.ts';
import { orders } from './orders.ts';
import { profiles, use } from './profiles.ts';
import { serve } from './serve.ts';
import { store } from './store.ts';

/** All commands, in the order of the help page. */
export const commands: readonly (Command | CommandGroup)[] = [
  list,
  find,
  countCommand,
  get,
  add,
  importCommand,
  orders,
  login,
  logout,
  profiles,
  use,
  serve,
  keys,
  store,
  completion,
  help,
];
