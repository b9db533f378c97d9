// Importing 'undici' loads the whole library, which takes longer than a command needs. Its files have no types of their own.
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}
