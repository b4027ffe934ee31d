// official.ts PLACE MODEL: jacdac-ts's own clients of both services, with a simulated accelerometer.
import * as fs from "fs"
import { JDBus } from "./node_modules/jacdac-ts/src/jdom/bus"
import { SRV_MODEL_RUNNER, SRV_SENSOR_AGGREGATOR, SRV_ACCELEROMETER } from "./node_modules/jacdac-ts/src/jdom/constants"
import { createNodeSocketTransport } from "./node_modules/jacdac-ts/src/jdom/transport/nodesocket"
import { JDServerServiceProvider } from "./node_modules/jacdac-ts/src/jdom/servers/serverserviceprovider"
import { AccelerometerServer } from "./node_modules/jacdac-ts/src/servers/accelerometerserver"
import { ModelRunnerClient } from "./node_modules/jacdac-ts/src/clients/modelrunnerclient"
import { SensorAggregatorClient } from "./node_modules/jacdac-ts/src/clients/sensoraggregatorclient"

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function run() {
    const [place, model] = process.argv.slice(2)
    const bus = new JDBus([createNodeSocketTransport(Number(place.split(":")[1]))], {
        client: true,
        disableRoleManager: true,
    })
    await bus.connect()
    bus.streaming = true
    bus.addServiceProvider(new JDServerServiceProvider("accelerometer", [new AccelerometerServer()]))
    const find = async (serviceClass: number) => {
        for (let tries = 0; tries < 500; tries++) {
            const found = bus.services({ serviceClass })[0]
            if (found) return found
            await pause(20)
        }
        throw new Error("no service " + serviceClass.toString(16))
    }
    const aggregator = new SensorAggregatorClient(await find(SRV_SENSOR_AGGREGATOR))
    const runner = new ModelRunnerClient(await find(SRV_MODEL_RUNNER))
    await find(SRV_ACCELEROMETER)
    const data = new Uint8Array(fs.readFileSync(model))
    const supported = await runner.isModelSupported(data)
    await runner.deployModel(data)
    await pause(500)
    await aggregator.setInputs({ samplingInterval: 20, samplesInWindow: 4, inputs: [{ serviceClass: SRV_ACCELEROMETER }] } as any)
    let results = 0
    let length = 0
    runner.subscribeResults((sample) => {
        results++
        length = sample.length
    })
    await runner.autoInvoke(2)
    for (let tries = 0; tries < 200 && results < 3; tries++) await pause(50)
    const modelStats = await runner.modelStats()
    const stats = await aggregator.stats()
    console.log(JSON.stringify({ supported, results, length, modelStats, stats }))
    process.exit(0)
}

run().catch((error) => {
    console.error(error)
    process.exit(1)
})
