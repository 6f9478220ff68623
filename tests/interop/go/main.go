// Scenarios with go-stomp: main PORT SCENARIO. Exit code 0: it went as it should.
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/go-stomp/stomp/v3"
)

const text = "text/plain"

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

func connect(options ...func(*stomp.Conn) error) *stomp.Conn {
	login := stomp.ConnOpt.Login("admin", "password")
	options = append([]func(*stomp.Conn) error{login, stomp.ConnOpt.Host("localhost")}, options...)
	conn, err := stomp.Dial("tcp", "127.0.0.1:"+os.Args[1], options...)
	check(err)
	return conn
}

func listen(conn *stomp.Conn, queue string, mode stomp.AckMode) *stomp.Subscription {
	subscription, err := conn.Subscribe(queue, mode)
	check(err)
	return subscription
}

func next(subscription *stomp.Subscription) *stomp.Message {
	message := <-subscription.C
	check(message.Err)
	return message
}

func versions() {
	for _, version := range []stomp.Version{stomp.V10, stomp.V11, stomp.V12} {
		conn := connect(stomp.ConnOpt.AcceptVersion(version))
		expect(conn.Version() == version, "another version than asked for")
		queue := "/queue/go." + version.String()
		subscription := listen(conn, queue, stomp.AckAuto)
		check(conn.Send(queue, text, []byte("Grüße, 世界 🐦"), stomp.SendOpt.Receipt))
		expect(string(next(subscription).Body) == "Grüße, 世界 🐦", "another body")
		check(conn.Disconnect())
	}
}

func binary() {
	conn := connect()
	body := bytes.Repeat([]byte{0, 1, 2, 10, 13, 58, 92, 255}, 1024*1024)
	subscription := listen(conn, "/queue/go.binary", stomp.AckAuto)
	check(conn.Send("/queue/go.binary", "application/octet-stream", body,
		stomp.SendOpt.Header("who", "a:b\\c\nÜ")))
	message := next(subscription)
	expect(bytes.Equal(message.Body, body), "another body")
	expect(message.Header.Get("who") == "a:b\\c\nÜ", "another header")
	check(conn.Disconnect())
}

func nack() {
	conn := connect()
	subscription := listen(conn, "/queue/go.nack", stomp.AckClientIndividual)
	check(conn.Send("/queue/go.nack", text, []byte("again")))
	check(conn.Nack(next(subscription)))
	message := next(subscription)
	expect(message.Header.Get("redelivered") == "true", "not marked as redelivered")
	check(conn.Ack(message))
	check(conn.Disconnect())
}

func transaction() {
	conn := connect()
	subscription := listen(conn, "/queue/go.tx", stomp.AckClientIndividual)
	undone := conn.Begin()
	check(undone.Send("/queue/go.tx", text, []byte("never")))
	check(undone.AbortWithReceipt())
	done := conn.Begin()
	check(done.Send("/queue/go.tx", text, []byte("done")))
	check(done.CommitWithReceipt())
	message := next(subscription)
	expect(string(message.Body) == "done", "an aborted message arrived")
	settled := conn.Begin()
	check(settled.Ack(message))
	check(settled.CommitWithReceipt())
	check(conn.Disconnect())
}

func heartbeats() {
	conn := connect(stomp.ConnOpt.HeartBeat(200*time.Millisecond, 200*time.Millisecond))
	subscription := listen(conn, "/queue/go.quiet", stomp.AckAuto)
	time.Sleep(time.Second) // several times what either side waits for a dead peer
	check(conn.Send("/queue/go.quiet", text, []byte("alive")))
	expect(string(next(subscription).Body) == "alive", "another body")
	check(conn.Disconnect())
}

func durable() {
	name := stomp.SubscribeOpt.Header("persistent", "true")
	id := stomp.SubscribeOpt.Id("go-reader")
	conn := connect()
	_, err := conn.Subscribe("/topic/go.news", stomp.AckAuto, id, name)
	check(err)
	check(conn.Disconnect())
	conn = connect()
	check(conn.Send("/topic/go.news", text, []byte("while away"), stomp.SendOpt.Receipt))
	subscription, err := conn.Subscribe("/topic/go.news", stomp.AckAuto, id, name,
		stomp.SubscribeOpt.Header("selector", "1 = 1"))
	check(err)
	expect(string(next(subscription).Body) == "while away", "another body")
	check(subscription.Unsubscribe(stomp.SubscribeOpt.Header("persistent", "true")))
	check(conn.Disconnect())
}

func selector() {
	conn := connect()
	wanted := stomp.SubscribeOpt.Header("selector", "colour = 'red'")
	subscription, err := conn.Subscribe("/queue/go.selector", stomp.AckAuto, wanted)
	check(err)
	for _, colour := range []string{"blue", "red"} {
		check(conn.Send("/queue/go.selector", text, []byte(colour),
			stomp.SendOpt.Header("colour", colour)))
	}
	expect(string(next(subscription).Body) == "red", "another colour")
	check(conn.Disconnect())
}

func main() {
	scenarios := map[string]func(){
		"versions": versions, "binary": binary, "nack": nack,
		"transaction": transaction, "heartbeats": heartbeats, "durable": durable,
		"selector": selector,
	}
	scenarios[os.Args[2]]()
	fmt.Println("ok")
}
