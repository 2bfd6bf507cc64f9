// An issuer of tokens for the tests: oidc-provider behind HTTPS on a loopback address.
// Arguments: the folder with node_modules, address, port, key and certificate (PEM files).
import { createRequire } from 'node:module'
import { createServer } from 'node:https'
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [folder, address, port, key, certificate] = process.argv.slice(2)
const found = createRequire(pathToFileURL(`${folder}/`)).resolve('oidc-provider')
const { default: Provider } = await import(pathToFileURL(found))

const server = {
  scope: 'produce',
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: 'RS256' } },
  accessTokenTTL: 300,
}
const client = (client_id) => ({
  client_id,
  client_secret: `${client_id}-secret`,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
})
const provider = new Provider(`https://${address}:${port}`, {
  clients: [client('orders'), client('spindle-test')],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({ ...server, audience: resource.replace('urn:', '') }),
    },
  },
})
createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, provider.callback())
  .listen(Number(port), address, () => console.log('listening'))
