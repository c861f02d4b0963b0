import type { AddressInfo } from 'node:net';
import { AgentTrust, Sidecar } from '../../../clients/node/src/index.ts';
import { type Api, type ApiOptions, startOwnApi } from '../../support/service/api.ts';
import { startTestSidecar, type TestSidecar } from '../../support/service/sidecar.ts';

/** A control plane and a sidecar, with a client of each. */
export interface ClientService {
  readonly api: Api;
  readonly url: string;
  readonly testSidecar: TestSidecar;
  readonly agentTrust: AgentTrust;
  readonly sidecar: Sidecar;
  close(): Promise<void>;
}

/** Waiting for an answer is no part of these tests: a busy machine may take long. */
const deadlineMs = 60_000;

export async function startClientService(options: ApiOptions = {}): Promise<ClientService> {
  const api = await startOwnApi(options);
  const testSidecar = await startTestSidecar({ api });
  const url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  const agentTrust = new AgentTrust({ url, apiKey: api.adminKey, deadlineMs });
  const sidecar = new Sidecar({ url: testSidecar.origin, apiKey: api.adminKey, deadlineMs });
  return {
    api,
    url,
    testSidecar,
    agentTrust,
    sidecar,
    close: async () => {
      sidecar.close();
      agentTrust.close();
      await testSidecar.close();
      testSidecar.removeFolder();
      await api.close();
    },
  };
}
