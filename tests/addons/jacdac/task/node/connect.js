// A jacdac-ts bus on one of the device's transports, and its Model Runner.
const j = require("jacdac-ts")

function transport(place) {
    if (place.startsWith("ws:")) {
        globalThis.WebSocket ??= require("ws")
        return j.createWebSocketTransport(place)
    }
    return j.createNodeSocketTransport(Number(place.split(":")[1]), place.split(":")[0])
}

async function until(found, what) {
    for (let tries = 0; tries < 500; tries++) {
        const value = found()
        if (value) return value
        await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error("no " + what)
}

async function connect(place, serviceClass) {
    const bus = new j.JDBus([transport(place)], { client: true, disableRoleManager: true })
    await bus.connect()
    const service = await until(() => bus.services({ serviceClass })[0], "service")
    return { j, bus, service }
}

async function get(service, code) {
    const register = service.register(code)
    await register.refresh()
    return Array.from(register.data || [])
}

function main(work) {
    work().then(
        (answer) => {
            console.log(JSON.stringify(answer))
            process.exit(0)
        },
        (error) => {
            console.error(error)
            process.exit(1)
        }
    )
}

module.exports = { connect, get, main, until }
